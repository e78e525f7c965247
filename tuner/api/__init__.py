"""The tuner's HTTP server: status page, API, metrics and health checks. It reads snapshots, and records operators' orders."""
