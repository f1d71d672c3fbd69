import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** A worker that locks by Curator. */
public final class CuratorWorker extends Worker {
    private final CuratorFramework client;

    private CuratorWorker(String assignment) throws InterruptedException {
        super(assignment, 2);
        int ttl = (int) TimeUnit.NANOSECONDS.toMillis(number("TTL"));
        client = CuratorFrameworkFactory.newClient(text("Where"), ttl, ttl, new ExponentialBackoffRetry(100, 10));
        client.start();
        client.blockUntilConnected();
    }

    public static void main(String[] args) throws Exception {
        run(CuratorWorker::new);
    }

    @Override
    Lock lock(String name) {
        InterProcessLock lock = recipe("/" + name);
        return new Lock() {
            @Override
            public boolean acquire(long nanoseconds) throws Exception {
                return lock.acquire(nanoseconds, TimeUnit.NANOSECONDS);
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    private InterProcessLock recipe(String path) {
        switch (text("Contestant")) {
            case "curator-writer":
                return new InterProcessReadWriteLock(client, path).writeLock();
            case "curator-reader":
                return new InterProcessReadWriteLock(client, path).readLock();
            default:
                return new InterProcessMutex(client, path);
        }
    }

    @Override
    void close() {
        client.close();
    }
}
