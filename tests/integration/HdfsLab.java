import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** Starts HDFS with one data node in the folder of the first argument, prints its address, and runs until it is killed. */
public class HdfsLab {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.setBoolean("dfs.permissions.enabled", true);
        // A test writes some megabytes, on a developer's machine whose disk may be almost full.
        conf.setLong("dfs.datanode.du.reserved", 0);
        conf.setLong("dfs.namenode.resource.du.reserved", 0);
        conf.setLong("dfs.blocksize", 1 << 20);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        FileSystem files = cluster.getFileSystem();
        files.mkdirs(new Path("/open"));
        files.setPermission(new Path("/open"), new FsPermission((short) 0777));
        System.out.println("HDFS is ready at hdfs://127.0.0.1:" + cluster.getNameNodePort());
        Thread.currentThread().join();
    }
}
