"""`rheostat demo`: one stalled reassignment on a real cluster, from the stall to the clean end.

``story.py`` tells it in order, ``rescue.py`` its turning point; ``parts.py`` is rheostat as it runs in it; ``move.py`` watches
the move from outside, with Kafka's own answers and nothing of ours; ``probe.py`` feels what producers feel; ``summary.py`` is
the verdict; ``view.py`` the screen.
"""
