"""Wire formats: one a file, each a function from the source's columns to the common schema. No state, no windows.

The common schema is one row per record, each record being one scrape of one node:

    topic, partition, offset, value    origin, as the source gave them
    reason     string, why the record is refused; NULL when it is good. What follows holds only then.
    cluster    string
    node       int
    role       string, one of contract.Role
    ts         long, epoch ms of the scrape
    samples    array<struct<n string, l string, v double>>, each a finite number with a name

A format refuses record by record and never fails: one bad sender must not stop everybody's signals.
"""
