"""Writes the generated parts of the documentation: each module makes one page of docs/reference/ from the code.

A page is written by people around a part between two markers (page.py); only that part is generated.
"""
