"""Changes of a throttle on a pair of brokers: how they are written, what is read off them, and recordings of real ones."""
