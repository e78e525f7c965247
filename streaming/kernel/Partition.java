package rheostat.stream;

import java.nio.ByteBuffer;

/**
 * One partition on one side of a broker in one scrape. NaN means unknown.
 *
 * @param leaderBytes log size of the leader
 * @param ownBytes log size of the follower; NaN on the leader side
 * @param counted replicas whose bytes count against this side's quota
 * @param adding whether a replica copies, because it is being added or recovers: any replica on the leader side, this one on the
 *     follower side
 * @param recovering whether no replica is being added, and all that copy were in sync before
 * @param awaitsRemote whether this replica of a tiered topic cannot copy before it has read the state of the remote log; false on
 *     the leader side
 * @param remainingBytes bytes that the copying replicas still lack; 0 if none copies
 * @param lagMessages ConsumerLag of the follower while it copies; NaN on the leader side
 */
record Partition(
        double leaderBytes,
        double ownBytes,
        double counted,
        boolean adding,
        boolean recovering,
        boolean awaitsRemote,
        double remainingBytes,
        double lagMessages) {

    private static final byte ADDING = 1;
    private static final byte RECOVERING = 2;
    /** Added to one of the two above. */
    private static final byte AWAITS_REMOTE = 4;

    static Partition read(ByteBuffer in) {
        double leader = in.getDouble();
        double own = in.getDouble();
        double counted = in.getDouble();
        double remaining = in.getDouble();
        double lag = in.getDouble();
        byte flags = in.get();
        int kind = flags & ~AWAITS_REMOTE;
        return new Partition(
                leader, own, counted, kind != 0, kind == RECOVERING, (flags & AWAITS_REMOTE) != 0, remaining, lag);
    }

    void write(Bytes out) {
        out.float64(leaderBytes).float64(ownBytes).float64(counted).float64(remainingBytes).float64(lagMessages);
        int kind = recovering ? RECOVERING : adding ? ADDING : 0;
        out.int8(awaitsRemote ? kind | AWAITS_REMOTE : kind);
    }

    /** Returns {@code more - less}, at least 0; NaN if either is NaN. */
    static double excess(double more, double less) {
        return Double.isNaN(more) || Double.isNaN(less) ? Double.NaN : Math.max(more - less, 0.0);
    }

    static double orZero(double value) {
        return Double.isNaN(value) ? 0.0 : value;
    }
}
