"""Rate changes on a pair of brokers: methods of changing a throttle, their figures, and recordings of real brokers."""
