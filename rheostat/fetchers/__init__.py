"""`rheostat fetchers`: how partitions fall to fetcher threads (LINE). command.py is the file to read first."""
