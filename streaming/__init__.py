"""The stream processor: turns broker metrics into signals with units. It only measures; the tuner judges the measurements.

Data flow: collector/ (or the operator's own pipeline) → sources → formats → entities → signals → sinks.
``shared/`` imports no Spark, so the tuner can use it without a JVM.
"""
