"""Judgement: values in, decisions out. Pure, so the simulator and a replay of the journal run the very same code.

``policy.py`` is the whole of one cycle's thinking and the file to read first. The word "stalled" starts here.
"""
