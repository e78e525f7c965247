"""From a decision to ordered, interruptible steps, and how long things take. Pure."""
