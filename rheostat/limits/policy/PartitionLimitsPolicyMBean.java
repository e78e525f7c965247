package rheostat.policy;

/** The figures of the policy in JMX, as {@code rheostat:type=CreateTopicPolicy}. All counters begin with 0 at the start of the node. */
public interface PartitionLimitsPolicyMBean {
    /** Returns the number of topics that were refused because they do not fit within the limits. */
    long getRefused();

    /** Returns the number of topics that were checked and fit, and of internal topics. */
    long getAllowed();

    /** Returns the number of topics that were allowed without a check, because the limits file could not be used. */
    long getAllowedUnchecked();

    /** Returns 1 while the limits file can be used, else 0. */
    int getLimitsUsable();

    /** Returns the age of the partition counts in seconds; -1 if there are none. */
    double getCountsAgeSeconds();

    /** Returns why topics are not checked; "ok" while they are checked. */
    String getState();

    /** Returns the longest time of a check in microseconds. */
    double getCheckMicrosMax();

    /** Returns the mean time of a check in microseconds. */
    double getCheckMicrosMean();
}
