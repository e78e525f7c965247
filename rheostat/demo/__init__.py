"""`rheostat demo`: shows one stalled reassignment on a real cluster, from the stall to the cleanup.

``story.py`` runs the steps in order, ``rescue.py`` the step in which the tuner acts; ``processes.py`` runs rheostat itself.
``move.py`` and ``probe.py`` observe the move and the produce latency without rheostat. ``summary.py`` evaluates the run,
``view.py`` prints it, and ``recording.py`` and ``chart.py`` draw it.
"""
