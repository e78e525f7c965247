"""The script that spark-submit runs. It has a folder of its own, because Python puts the folder of a script first on its path."""
