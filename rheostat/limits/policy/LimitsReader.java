package rheostat.policy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads the limits file each second in a thread of its own, because a disk may hang and the controller must not wait for it. */
final class LimitsReader {
    /** The newest content of the file: the limits, or why it cannot be used. One of the two is null. */
    static final class Result {
        final Limits limits;
        final String problem;

        private Result(Limits limits, String problem) {
            this.limits = limits;
            this.problem = problem;
        }

        /** Returns why topics cannot be checked at this time; null if they can. */
        String unusableReason(long nowMs) {
            return limits == null ? problem : limits.unusableReason(nowMs);
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(PartitionLimitsPolicy.class);
    private static final long EVERY_MS = 1_000;
    private static final long BYTES_MAX = 4_000_000;

    private final Path file;
    private final Thread thread;
    private byte[] content = {};
    private String logged = "";
    private volatile Result result = new Result(null, "it has not been read yet");

    LimitsReader(Path file) {
        this.file = file;
        thread = new Thread(this::run, "rheostat-limits-reader");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    void stop() {
        thread.interrupt();
    }

    Result newest() {
        return result;
    }

    private void run() {
        while (!Thread.currentThread().isInterrupted()) {
            try {
                read();
            } catch (RuntimeException | LinkageError error) {
                // A LinkageError comes, for example, if the jar of the running controller is replaced.
                result = new Result(null, "the reader failed: " + error);
            }
            logChange();
            try {
                Thread.sleep(EVERY_MS);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private void read() {
        try {
            if (Files.size(file) > BYTES_MAX) {
                throw new UnusableLimitsException("it is larger than " + BYTES_MAX + " bytes");
            }
            byte[] bytes = Files.readAllBytes(file);
            if (result.limits == null || !Arrays.equals(bytes, content)) {
                result = new Result(Limits.parse(bytes), null);
                content = bytes;
            }
        } catch (NoSuchFileException error) {
            result = new Result(null, "it does not exist");
        } catch (IOException error) {
            result = new Result(null, "it cannot be read: " + error);
        } catch (UnusableLimitsException error) {
            result = new Result(null, error.getMessage());
        }
    }

    /** Logs when topics begin or cease to be checked. The controller's thread logs nothing, because a log may block it. */
    private void logChange() {
        String reason = result.unusableReason(System.currentTimeMillis());
        // Without its figures, so that a growing age is logged once.
        String kind = reason == null ? "ok" : reason.replaceAll("[0-9]+", "N");
        if (kind.equals(logged)) {
            return;
        }
        logged = kind;
        if (reason == null) {
            LOG.info("Partition limits: new topics are checked against {}.", file);
        } else {
            LOG.warn("Partition limits: {} cannot be used, so new topics are not checked: {}.", file, reason);
        }
    }
}
