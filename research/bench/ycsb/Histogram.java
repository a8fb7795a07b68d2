import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.Vector;
import java.util.function.LongSupplier;

import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.Utils;
import site.ycsb.generator.CounterGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;
import site.ycsb.generator.SkewedLatestGenerator;
import site.ycsb.generator.UniformLongGenerator;
import site.ycsb.generator.ZipfianGenerator;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * Draws picks with YCSB's own generators, and whole workloads with its CoreWorkload, and prints how
 * often each was picked: what research/bench/src/ycsb is compared with. Arguments: picks of each
 * distribution, operations of each workload, the version of YCSB.
 *
 * <p>A line is a name, what is counted, and counts, with the thing before each where it is not a
 * number from 0 up. "hot" are the 100 items that are picked most often in theory: chosen by rank and
 * not by count, so that chance does not choose them. "range" are 100 equal ranges of items. Items of
 * "latest" and of workload D are counted by age. Of a workload only the records that are loaded are
 * counted, or as many ages: how often newer ones are picked depends on when chance inserts them, so
 * that two runs of YCSB differ by more than two samples of one distribution do.
 */
public final class Histogram {
  private static final int RANGES = 100;
  private static final int HOT = 100;
  private static final long RECORDS = 1000;

  private Histogram() {}

  private static void line(String name, String what, Map<?, Long> counts) {
    StringBuilder out = new StringBuilder(name).append(' ').append(what);
    counts.forEach((thing, count) -> out.append(' ').append(thing).append(':').append(count));
    System.out.println(out);
  }

  private static void plain(String name, String what, long[] counts) {
    StringBuilder out = new StringBuilder(name).append(' ').append(what);
    for (long count : counts) {
      out.append(' ').append(count);
    }
    System.out.println(out);
  }

  /** Prints both views of the counts of items; hot: from rank to item. */
  private static void items(String name, long[] counts, List<Long> hot) {
    Map<Long, Long> top = new TreeMap<>();
    hot.forEach(item -> top.put(item, counts[(int) (long) item]));
    line(name, "hot", top);
    long[] ranges = new long[RANGES];
    for (int i = 0; i < counts.length; i++) {
      ranges[(int) ((long) i * RANGES / counts.length)] += counts[i];
    }
    plain(name, "range", ranges);
  }

  private static List<Long> first() {
    List<Long> ranks = new ArrayList<>();
    for (long rank = 0; rank < HOT; rank++) {
      ranks.add(rank);
    }
    return ranks;
  }

  private static List<Long> scrambled(long items, long counted) {
    List<Long> hot = new ArrayList<>();
    first().forEach(rank -> hot.add(Utils.fnvhash64(rank) % items));
    hot.removeIf(item -> item >= counted);
    return hot;
  }

  private static void draw(String name, long items, long picks, List<Long> hot, LongSupplier next) {
    long[] counts = new long[(int) items];
    for (long i = 0; i < picks; i++) {
      counts[(int) next.getAsLong()]++;
    }
    items(name, counts, hot);
  }

  private static void generators(long picks) {
    for (long items : new long[] {1000, 100000}) {
      ScrambledZipfianGenerator scrambled = new ScrambledZipfianGenerator(items);
      draw("scrambled-" + items, items, picks, scrambled(items, items), () -> scrambled.nextValue());
      ZipfianGenerator zipfian = new ZipfianGenerator(items);
      draw("zipfian-" + items, items, picks, first(), () -> zipfian.nextValue());
    }
    UniformLongGenerator uniform = new UniformLongGenerator(0, 999);
    draw("uniform-1000", 1000, picks, first(), () -> uniform.nextValue());
    // One insert before every 20th pick, as workload D has them on average.
    CounterGenerator counter = new CounterGenerator(RECORDS);
    SkewedLatestGenerator latest = new SkewedLatestGenerator(counter);
    long[] step = {0};
    draw("latest-1000", RECORDS + picks / 20 + 1, picks, first(), () -> {
      if (step[0]++ % 20 == 0) {
        counter.nextValue();
      }
      return counter.lastValue() - latest.nextValue();
    });
  }

  /** Counts what a workload asks for. */
  private static final class Counter extends DB {
    private final Map<String, Long> numbers = new HashMap<>();
    private final Map<String, Long> kinds = new TreeMap<>();
    private final long[] lengths = new long[101];
    private final long[] fields = new long[10];
    private final long[] counts = new long[(int) RECORDS];
    private final boolean byAge;
    private long inserted = RECORDS;

    Counter(long space, boolean byAge) {
      this.byAge = byAge;
      for (long i = 0; i < space; i++) {
        numbers.put("user" + Utils.fnvhash64(i), i);
      }
    }

    private Status count(String kind, String key) {
      kinds.merge(kind, 1L, Long::sum);
      long number = numbers.get(key);
      long at = byAge ? inserted - 1 - number : number;
      if (at < RECORDS) {
        counts[(int) at]++;
      }
      return Status.OK;
    }

    @Override
    public Status read(String t, String key, Set<String> f, Map<String, ByteIterator> result) {
      return count("read", key);
    }

    @Override
    public Status scan(String t, String key, int length, Set<String> f,
        Vector<HashMap<String, ByteIterator>> result) {
      lengths[length]++;
      return count("scan", key);
    }

    @Override
    public Status update(String t, String key, Map<String, ByteIterator> values) {
      values.keySet().forEach(field -> fields[Integer.parseInt(field.substring(5))]++);
      return count("update", key);
    }

    @Override
    public Status insert(String t, String key, Map<String, ByteIterator> values) {
      kinds.merge("insert", 1L, Long::sum);
      if (numbers.get(key) != inserted++) {
        throw new IllegalStateException("inserts are not in order");
      }
      return Status.OK;
    }

    @Override
    public Status delete(String t, String key) {
      throw new IllegalStateException("no core workload deletes");
    }
  }

  /** The settings of workloads/workloada to workloadf. */
  private static Properties settings(String workload, long operations) {
    String[] shares = {"read", "update", "insert", "scan", "readmodifywrite"};
    double[] of = switch (workload) {
      case "a" -> new double[] {0.5, 0.5, 0, 0, 0};
      case "b" -> new double[] {0.95, 0.05, 0, 0, 0};
      case "c" -> new double[] {1, 0, 0, 0, 0};
      case "d" -> new double[] {0.95, 0, 0.05, 0, 0};
      case "e" -> new double[] {0, 0, 0.05, 0.95, 0};
      default -> new double[] {0.5, 0, 0, 0, 0.5};
    };
    Properties settings = new Properties();
    for (int i = 0; i < shares.length; i++) {
      settings.setProperty(shares[i] + "proportion", Double.toString(of[i]));
    }
    settings.setProperty("recordcount", Long.toString(RECORDS));
    settings.setProperty("operationcount", Long.toString(operations));
    settings.setProperty("requestdistribution", workload.equals("d") ? "latest" : "zipfian");
    settings.setProperty("scanlengthdistribution", "uniform");
    settings.setProperty("maxscanlength", "100");
    return settings;
  }

  private static void workload(String workload, long operations) throws Exception {
    Properties settings = settings(workload, operations);
    Measurements.setProperties(settings);
    CoreWorkload core = new CoreWorkload();
    core.init(settings);
    // Room for twice the expected inserts, and the one item more that YCSB's range has.
    double inserts = Double.parseDouble(settings.getProperty("insertproportion"));
    long space = RECORDS + (int) (operations * inserts * 2) + 1;
    Counter counter = new Counter(space, workload.equals("d"));
    for (long i = 0; i < operations; i++) {
      core.doTransaction(counter, null);
    }
    String name = "workload-" + workload;
    line(name, "kind", counter.kinds);
    // B, C and F choose items as A does.
    switch (workload) {
      case "a" -> {
        plain(name, "field", counter.fields);
        items(name, counter.counts, scrambled(space, RECORDS));
      }
      case "d" -> items(name, counter.counts, first());
      case "e" -> {
        plain(name, "length", counter.lengths);
        items(name, counter.counts, scrambled(space, RECORDS));
      }
      default -> { }
    }
  }

  public static void main(String[] args) throws Exception {
    long picks = Long.parseLong(args[0]);
    long operations = Long.parseLong(args[1]);
    System.out.println("# Drawn by YCSB's site.ycsb:core:" + args[2]
        + " with research/bench/ycsb/Histogram.java; see check.sh.");
    System.out.println("picks " + picks);
    System.out.println("operations " + operations);
    StringBuilder names = new StringBuilder("names");
    for (long number : new long[] {0, 1, 2, 255, 256, 999, 123456789, Integer.MAX_VALUE}) {
      names.append(' ').append(number).append(":user").append(Utils.hash(number));
    }
    System.out.println(names);
    generators(picks);
    for (String one : new String[] {"a", "b", "c", "d", "e", "f"}) {
      workload(one, operations);
    }
  }
}
