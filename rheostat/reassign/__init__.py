"""`rheostat reassign`: records a plan and watches it. The tuner executes the plan; this package moves nothing itself."""
