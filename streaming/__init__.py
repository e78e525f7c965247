"""The stream processor: broker metrics in, signals with units out. It measures and judges nothing; the tuner judges.

Data flow: collector/ (or the operator's own pipeline) → sources → formats → entities → signals → sinks.
``shared/`` imports no Spark, so the tuner can use it without a JVM.
"""
