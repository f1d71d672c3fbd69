import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A worker that locks by Redisson. */
public final class RedissonWorker extends Worker {
    private final RedissonClient client;

    private RedissonWorker(String assignment) {
        super(assignment, 5);
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + text("Where"));
        config.setLockWatchdogTimeout(TimeUnit.NANOSECONDS.toMillis(number("TTL")));
        client = Redisson.create(config);
    }

    public static void main(String[] args) throws Exception {
        run(RedissonWorker::new);
    }

    @Override
    Lock lock(String name) {
        RLock lock = text("Contestant").equals("redisson-fair") ? client.getFairLock(name) : client.getLock(name);
        return new Lock() {
            @Override
            public boolean acquire(long nanoseconds) throws Exception {
                return lock.tryLock(nanoseconds, TimeUnit.NANOSECONDS);
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @Override
    void close() {
        client.shutdown();
    }
}
