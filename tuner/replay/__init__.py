"""What was decided, decided again: the recorded inputs put through the decisions of this program. Nothing is written.

``film.py`` makes steps of records, ``play.py`` decides them again, ``compare.py`` says what is not the same.
"""
