"""Writes the generated parts of the documentation: each module generates a part of one page in docs/reference/ from the code.

The generated part is between two markers (page.py). People write the rest of the page.
"""
