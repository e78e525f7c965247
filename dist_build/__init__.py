"""Makes the files beside the wheel: the list of components (SBOM) and of their licences. Also looks up known vulnerabilities."""
