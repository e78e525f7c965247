"""Makes what is beside the wheel in dist/: the list of components (SBOM), the list of licences, and the audit of known vulnerabilities."""
