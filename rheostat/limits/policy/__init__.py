"""The plugin CreateTopicPolicy of the controllers, and the file that tells it the limits and the present counts (KIP-578).

    PartitionLimitsPolicy.java   Kafka calls it for each new topic; refuses topics that do not fit
    Checker.java, Pending.java   the decision, and the replicas that were allowed since the last count
    Limits.java                  the content of the limits file
    LimitsReader.java            reads the file each second in a thread of its own
    limits_file.py               the same content, as rheostat writes it
    keeper.py                    `rheostat limits policy keep`: counts and writes the file again and again
    export.py                    `rheostat limits policy export`: the jar, and the files that an operator adds to the controllers

The policy allows each topic if the file is missing, incomplete or old: a failure of rheostat must not stop the creation of topics.
"""
