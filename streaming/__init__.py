"""Measures: broker metrics in, numbers with units out. Judges nothing; the word "stalled" does not occur here.

Order of the data: collector/ (or the user's own pipeline) → sources → formats → rates, lag → signals → sinks.
``contract.py`` and ``kafka/`` import no Spark, so that the tuner can use them without a JVM.
"""
