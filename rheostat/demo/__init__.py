"""`rheostat demo`: one stalled reassignment on a real cluster, from the stall to the clean end.

``story.py`` tells it in order; ``move.py`` watches the move from outside, with Kafka's own answers and nothing of ours;
``probe.py`` feels what producers feel; ``summary.py`` is the verdict; ``view.py`` the screen.
"""
