package rheostat.policy;

import java.lang.management.ManagementFactory;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Refuses new topics that do not fit within max.broker.partitions and max.partitions of KIP-578.
 *
 * <p>The limits and the present number of partitions come from a file that rheostat writes. If the file is missing, damaged or old,
 * the policy allows each topic: a failure of rheostat must not stop the creation of topics.
 *
 * <p>Kafka calls {@link #validate} in the thread of the controller. So this method reads no file, writes no log, and waits for no
 * other thread that does.
 */
public final class PartitionLimitsPolicy implements CreateTopicPolicy, PartitionLimitsPolicyMBean {
    /** The setting of the controller that names the limits file. */
    public static final String FILE_SETTING = "rheostat.policy.limits.file";

    private static final Logger LOG = LoggerFactory.getLogger(PartitionLimitsPolicy.class);
    private static final String JMX_NAME = "rheostat:type=CreateTopicPolicy";
    private final Pending pending = new Pending();
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong allowed = new AtomicLong();
    private final AtomicLong allowedUnchecked = new AtomicLong();
    private final AtomicLong checkNanosSum = new AtomicLong();
    private final AtomicLong checkNanosMax = new AtomicLong();
    private volatile LimitsReader reader;
    private volatile String checkError;

    /** Starts to read the limits file. Never throws, as an exception would stop the controller. */
    @Override
    public void configure(Map<String, ?> settings) {
        WarmUp.run();
        Object file = settings.get(FILE_SETTING);
        try {
            if (file == null || file.toString().isBlank()) {
                LOG.error("Partition limits: the setting {} is missing, so new topics are not checked.", FILE_SETTING);
            } else {
                reader = new LimitsReader(Path.of(file.toString().strip()));
                reader.start();
            }
        } catch (InvalidPathException error) {
            LOG.error("Partition limits: {} is no path, so new topics are not checked.", FILE_SETTING, error);
        }
        register();
    }

    @Override
    public void validate(RequestMetadata request) {
        long startNanos = System.nanoTime();
        Checker.Verdict verdict;
        try {
            verdict = check(request);
            if (checkError != null) {
                checkError = null; // Otherwise the state would be wrong until the controller is restarted.
            }
        } catch (RuntimeException | LinkageError error) {
            // Any exception but PolicyViolationException would make the controller give up its role.
            checkError = error.toString();
            verdict = Checker.Verdict.UNCHECKED;
        }
        long nanos = System.nanoTime() - startNanos;
        checkNanosSum.addAndGet(nanos);
        checkNanosMax.accumulateAndGet(nanos, Math::max);
        if (verdict.refusal != null) {
            refused.incrementAndGet();
            throw new PolicyViolationException(verdict.refusal);
        }
        (verdict.isChecked ? allowed : allowedUnchecked).incrementAndGet();
    }

    @Override
    public void close() {
        LimitsReader current = reader;
        if (current != null) {
            current.stop();
        }
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(new ObjectName(JMX_NAME));
        } catch (JMException error) {
            LOG.debug("Partition limits: {} was not registered.", JMX_NAME, error);
        }
    }

    private Checker.Verdict check(RequestMetadata request) {
        LimitsReader current = reader;
        long nowMs = System.currentTimeMillis();
        if (current == null) {
            return Checker.Verdict.UNCHECKED;
        }
        LimitsReader.Result result = current.newest();
        // A controller with KRaft has one thread. With ZooKeeper several threads call the policy.
        synchronized (pending) {
            if (result.unusableReason(nowMs) != null) {
                pending.forgetAll();
                return Checker.Verdict.UNCHECKED;
            }
            if (result.limits.isExempt(request.topic())) {
                return Checker.Verdict.ALLOWED;
            }
            pending.forgetCounted(result.limits.countedAtMs);
            return new Checker(result.limits, pending, nowMs).check(request);
        }
    }

    private void register() {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        try {
            server.registerMBean(this, new ObjectName(JMX_NAME));
        } catch (JMException error) {
            LOG.warn("Partition limits: {} cannot be registered, so its figures are not in JMX.", JMX_NAME, error);
        }
    }

    @Override
    public long getRefused() {
        return refused.get();
    }

    @Override
    public long getAllowed() {
        return allowed.get();
    }

    @Override
    public long getAllowedUnchecked() {
        return allowedUnchecked.get();
    }

    @Override
    public int getLimitsUsable() {
        return "ok".equals(getState()) ? 1 : 0;
    }

    @Override
    public double getCountsAgeSeconds() {
        LimitsReader current = reader;
        Limits limits = current == null ? null : current.newest().limits;
        return limits == null ? -1 : (System.currentTimeMillis() - limits.countedAtMs) / 1000.0;
    }

    @Override
    public String getState() {
        LimitsReader current = reader;
        if (current == null) {
            return "the setting " + FILE_SETTING + " names no file";
        }
        String reason = current.newest().unusableReason(System.currentTimeMillis());
        if (reason != null) {
            return "the limits file cannot be used: " + reason;
        }
        String error = checkError;
        return error == null ? "ok" : "a check failed, and its topic was allowed: " + error;
    }

    @Override
    public double getCheckMicrosMax() {
        return checkNanosMax.get() / 1000.0;
    }

    @Override
    public double getCheckMicrosMean() {
        long checks = refused.get() + allowed.get() + allowedUnchecked.get();
        return checks == 0 ? 0 : checkNanosSum.get() / 1000.0 / checks;
    }
}
