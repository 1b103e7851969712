import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LogDocMergePolicy;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.FSDirectory;

/**
 * Reads texts from stdin, one a line. `tokens` prints the words of each, `index FOLDER` builds an index,
 * `search FOLDER K` prints "row:score ..." for each query, and `time FOLDER K TURNS` the CPU milliseconds per
 * query in the fastest turn, then the process's anonymous memory in kB. Queries are bags of words and parameters are Pyserini's.
 */
public class Lucene {
  static final Analyzer ANALYZER = new EnglishAnalyzer();
  static final BM25Similarity BM25 = new BM25Similarity(0.9f, 0.4f);

  public static void main(String[] told) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (var out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8")) {
      if (told[0].equals("tokens")) {
        for (String line; (line = lines.readLine()) != null; ) out.println(String.join(" ", tokens(line)));
      } else if (told[0].equals("index")) {
        index(lines, Path.of(told[1]));
      } else {
        search(lines.lines().toList(), told, out);
      }
    }
  }

  static List<String> tokens(String text) throws Exception {
    List<String> found = new ArrayList<>();
    try (TokenStream stream = ANALYZER.tokenStream("text", new StringReader(text))) {
      var term = stream.addAttribute(CharTermAttribute.class);
      for (stream.reset(); stream.incrementToken(); ) found.add(term.toString());
      stream.end();
    }
    return found;
  }

  static void index(BufferedReader lines, Path folder) throws Exception {
    var config = new IndexWriterConfig(ANALYZER).setSimilarity(BM25);
    config.setMergePolicy(new LogDocMergePolicy()); // keeps the order of rows, which decides between equals
    config.setMergeScheduler(new SerialMergeScheduler());
    var type = new FieldType();
    type.setTokenized(true);
    type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
    try (var writer = new IndexWriter(FSDirectory.open(folder), config)) {
      for (String line; (line = lines.readLine()) != null; ) {
        var document = new Document();
        document.add(new Field("text", line, type));
        writer.addDocument(document);
      }
      writer.forceMerge(1);
    }
  }

  static void search(List<String> queries, String[] told, PrintStream out) throws Exception {
    int k = Integer.parseInt(told[2]);
    try (var reader = DirectoryReader.open(FSDirectory.open(Path.of(told[1])))) {
      var searcher = new IndexSearcher(reader);
      searcher.setSimilarity(BM25);
      if (told[0].equals("time")) {
        out.println(cpuMs(searcher, queries, k, Integer.parseInt(told[3])));
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
          if (line.startsWith("RssAnon:")) out.println(line.replaceAll("\\D", ""));
        }
        return;
      }
      for (String query : queries) {
        var line = new StringBuilder();
        for (ScoreDoc hit : hits(searcher, query, k)) line.append(hit.doc + ":" + hit.score + " ");
        out.println(line.toString().strip());
      }
    }
  }

  static ScoreDoc[] hits(IndexSearcher searcher, String text, int k) throws Exception {
    Map<String, Integer> bag = new LinkedHashMap<>();
    for (String word : tokens(text)) bag.merge(word, 1, Integer::sum);
    var query = new BooleanQuery.Builder();
    bag.forEach((word, times) -> query.add(
        new BoostQuery(new TermQuery(new Term("text", word)), times), Occur.SHOULD));
    return searcher.search(query.build(), k).scoreDocs;
  }

  static double cpuMs(IndexSearcher searcher, List<String> queries, int k, int turns) throws Exception {
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long best = Long.MAX_VALUE;
    for (int turn = 0; turn < turns; turn++) {
      long before = system.getProcessCpuTime();
      for (String query : queries) hits(searcher, query, k);
      best = Math.min(best, system.getProcessCpuTime() - before);
    }
    return best / 1e6 / queries.size();
  }
}
