"""The commands, by what they are about; ``rheostat/cli.py`` joins them.

Invariant: a module here imports at its head only what every command needs, and the rest when its command runs: the tuner
never loads Spark, and `--help` loads nothing.
"""
