"""`rheostat journal`: lists the journal's unreadable records and repairs them."""
