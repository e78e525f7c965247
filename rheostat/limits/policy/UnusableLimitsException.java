package rheostat.policy;

/** The limits file cannot be used; the message says why. */
final class UnusableLimitsException extends Exception {
    private static final long serialVersionUID = 1L;

    UnusableLimitsException(String reason) {
        super(reason);
    }
}
