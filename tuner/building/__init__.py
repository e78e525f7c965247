"""How the parts of a tuner are made of settings, clients and each other, one part a file.

Nothing here runs or decides, and nothing is built twice: ``tuner/app.py`` says in which order. Who makes a client here registers
its end on the line after.
"""
