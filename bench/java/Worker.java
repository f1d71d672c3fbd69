import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A worker of the bench. It does what worker.go does, and says it in JSON, a message a line:
 *
 * <pre>
 * parent: assignment   worker: report (it is connected and warm)
 * parent: begin        worker: report (what it did)
 * </pre>
 *
 * Times are those of System.nanoTime, which on Linux is the clock that all processes share.
 */
public abstract class Worker {
    private final String assignment;
    private final long warmUp;

    /** It locks for so many seconds before it says that it is ready: what has run seldom is interpreted. */
    Worker(String assignment, int warmUp) {
        this.assignment = assignment;
        this.warmUp = TimeUnit.SECONDS.toNanos(warmUp);
    }

    /** A lock of one thread. */
    interface Lock {
        /** Waits for the lock for so many nanoseconds, and returns whether it is held. */
        boolean acquire(long nanoseconds) throws Exception;

        void release() throws Exception;
    }

    abstract Lock lock(String name);

    abstract void close();

    /** Connects a worker. */
    interface Opening {
        Worker open(String assignment) throws Exception;
    }

    static void run(Opening opening) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        Worker worker = opening.open(orders.readLine());
        worker.warmUp();
        System.out.println("{}");
        long start = number(orders.readLine(), "At");
        endWithParent(orders);
        long before = processorTime();
        String tallies = worker.lockForAWhile(start);
        System.out.println("{\"CPU\":" + (processorTime() - before) + ",\"Tallies\":[" + tallies + "]}");
        worker.close();
        System.exit(0);
    }

    private static long processorTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    /** Has two threads for each that is to come lock a name, so that waiting is warm too. */
    private void warmUp() throws Exception {
        long start = System.nanoTime();
        together(2 * (int) number("Goroutines"), g -> {
            return turns("warm-" + number("Process") + "-" + g / 2, 0, start, start + warmUp, 0, 0);
        });
    }

    /** Locks and unlocks in all threads for as long as the workload lasts, and returns what came of it. */
    private String lockForAWhile(long start) throws Exception {
        int count = (int) number("Goroutines");
        return together(count, g -> {
            long name = (number("Process") * count + g) % number("Names");
            return turns("bench-" + name, name, start, start + number("Lasts"), number("Work"), number("Pause"));
        });
    }

    /** What a thread does. */
    private interface Task {
        String run(int thread) throws Exception;
    }

    /** Ends this process when nobody is at the other end any more. */
    private static void endWithParent(BufferedReader orders) {
        Thread thread = new Thread(() -> {
            try {
                orders.readLine();
            } catch (java.io.IOException e) {
                // it is gone as well
            }
            Runtime.getRuntime().halt(1);
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static String together(int count, Task task) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<String>> done = new ArrayList<>();
        for (int g = 0; g < count; g++) {
            int thread = g;
            done.add(threads.submit(() -> task.run(thread)));
        }
        List<String> results = new ArrayList<>();
        for (Future<String> result : done) {
            results.add(result.get());
        }
        threads.shutdown();
        return String.join(",", results);
    }

    /** Locks and unlocks until stop. A wait that is still going on then counts as one that lasted at least so long. */
    private String turns(String key, long name, long start, long stop, long work, long pause) throws Exception {
        Lock lock = lock(key);
        List<long[]> holds = new ArrayList<>();
        long unserved = 0;
        int errors = 0;
        String firstError = "";
        sleep(start - System.nanoTime());
        while (true) {
            long asked = System.nanoTime();
            if (asked >= stop) {
                break;
            }
            try {
                boolean served = lock.acquire(stop - asked);
                long begin = System.nanoTime();
                if (!served && begin < stop) {
                    continue; // it counts milliseconds
                }
                long end = begin;
                if (served) {
                    sleep(work);
                    end = System.nanoTime();
                    lock.release();
                }
                if (!served || begin >= stop) {
                    unserved = stop - asked;
                    break;
                }
                holds.add(new long[] {asked, begin, end, System.nanoTime()});
            } catch (Exception e) {
                if (errors++ == 0) {
                    firstError = e.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ");
                }
                sleep(TimeUnit.MILLISECONDS.toNanos(5));
                continue;
            }
            sleep(pause);
        }
        return "{\"Process\":" + number("Process") + ",\"Name\":" + name + ",\"Unserved\":" + unserved
            + ",\"Errors\":" + errors + ",\"FirstError\":\"" + firstError + "\",\"Holds\":[" + json(holds) + "]}";
    }

    private static String json(List<long[]> holds) {
        List<String> texts = new ArrayList<>();
        for (long[] h : holds) {
            texts.add("{\"Asked\":" + h[0] + ",\"Begin\":" + h[1] + ",\"End\":" + h[2] + ",\"Released\":" + h[3] + "}");
        }
        return String.join(",", texts);
    }

    private static void sleep(long nanoseconds) throws InterruptedException {
        if (nanoseconds > 0) {
            TimeUnit.NANOSECONDS.sleep(nanoseconds);
        }
    }

    long number(String field) {
        return number(assignment, field);
    }

    private static long number(String message, String field) {
        return Long.parseLong(find(message, "\"" + field + "\":(-?\\d+)"));
    }

    String text(String field) {
        return find(assignment, "\"" + field + "\":\"([^\"]*)\"");
    }

    private static String find(String message, String pattern) {
        Matcher matcher = Pattern.compile(pattern).matcher(message);
        if (!matcher.find()) {
            throw new IllegalArgumentException(message);
        }
        return matcher.group(1);
    }
}
