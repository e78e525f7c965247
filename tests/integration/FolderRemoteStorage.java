import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * Keeps the remote segments of a lab in a folder that all its brokers share. The setting {@code dir} names the folder.
 *
 * <p>While the folder has a file {@code away}, every call fails, as if the remote storage did not answer.
 */
public class FolderRemoteStorage implements RemoteStorageManager {
    private Path folder;

    @Override
    public void configure(Map<String, ?> settings) {
        folder = Path.of(settings.get("dir").toString());
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        Path segment = segment(metadata);
        try {
            Files.createDirectories(segment);
            copy(data.logSegment(), segment.resolve("log"));
            copy(data.offsetIndex(), segment.resolve(IndexType.OFFSET.name()));
            copy(data.timeIndex(), segment.resolve(IndexType.TIMESTAMP.name()));
            copy(data.producerSnapshotIndex(), segment.resolve(IndexType.PRODUCER_SNAPSHOT.name()));
            if (data.transactionIndex().isPresent()) {
                copy(data.transactionIndex().get(), segment.resolve(IndexType.TRANSACTION.name()));
            }
            ByteBuffer epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            Files.write(segment.resolve(IndexType.LEADER_EPOCH.name()), bytes);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
        return Optional.empty();
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int first) throws RemoteStorageException {
        return fetchLogSegment(metadata, first, Integer.MAX_VALUE - 1);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int first, int last) throws RemoteStorageException {
        byte[] bytes = read(segment(metadata).resolve("log"));
        int end = Math.min(bytes.length, last + 1);
        return new ByteArrayInputStream(bytes, Math.min(first, end), Math.max(0, end - first));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        return new ByteArrayInputStream(read(segment(metadata).resolve(type.name())));
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        Path segment = segment(metadata);
        try (Stream<Path> files = Files.exists(segment) ? Files.list(segment) : Stream.empty()) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(segment);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public void close() {}

    private Path segment(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        if (Files.exists(folder.resolve("away"))) {
            throw new RemoteStorageException("the remote storage is away");
        }
        return folder.resolve(metadata.remoteLogSegmentId().id().toString());
    }

    private static byte[] read(Path file) throws RemoteStorageException {
        try {
            return Files.readAllBytes(file);
        } catch (NoSuchFileException error) {
            throw new RemoteResourceNotFoundException(error);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
    }
}
