import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** Starts YARN with two nodes, writes its configuration into the folder of the first argument, and runs until it is killed. */
public class YarnLab {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration conf = new YarnConfiguration();
        conf.set("fs.defaultFS", "file:///");
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        conf.setInt("yarn.nodemanager.resource.memory-mb", 2048);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        // A disk of a developer's machine may be almost full.
        conf.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 99.9f);
        MiniYARNCluster cluster = new MiniYARNCluster("lab", 2, 1, 1);
        cluster.init(conf);
        cluster.start();
        for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {
            try (OutputStream out = Files.newOutputStream(Path.of(arguments[0], name))) {
                cluster.getConfig().writeXml(out);
            }
        }
        System.out.println("YARN is ready");
        Thread.currentThread().join();
    }
}
