"""Writes the generated files of deploy/: systemd units, files of the Helm chart that have another source, the kustomize base."""
