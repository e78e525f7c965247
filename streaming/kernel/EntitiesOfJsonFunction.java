package rheostat.stream;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Turns a valid record of rheostat's own format into its entities. Returns NULL for any other record, which
 * formats/rheostat_json.py then parses, because that can name the fault.
 *
 * <p>Samples go one by one from the parser into the fold, so no scrape is held in memory.
 *
 * <p>Invariant: a record accepted here yields the same entities as in formats/rheostat_json.py. A record that the two might read
 * differently (a duplicate field, a number as text, a sample with additional fields) is not accepted.
 */
final class EntitiesOfJsonFunction extends KernelFunction {
    private static final long serialVersionUID = 1;
    private static final int NAME_LENGTH_MAX = 256;
    private static final int DEPTH_MAX = 100;
    // The factory caches thousands of field names for the life of the JVM. Without a limit on their length, the names of one
    // hostile sender would fill the heap.
    private static final JsonFactory JSON = JsonFactory.builder()
            .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNameLength(NAME_LENGTH_MAX)
                    .maxNestingDepth(DEPTH_MAX)
                    .build())
            .build();
    // The usual field names, compared as bytes without a look-up in the name table.
    private static final SerializedString N = new SerializedString("n");
    private static final SerializedString L = new SerializedString("l");
    private static final SerializedString V = new SerializedString("v");

    private final Tables tables;

    EntitiesOfJsonFunction(Tables tables) {
        super("entities_of_json", EntitiesFunction.ENTITIES, "binary", "bigint", "bigint", "bigint");
        this.tables = tables;
    }

    @Override
    public Object produceResult(InternalRow in) {
        if (in.isNullAt(0)) {
            return null;
        }
        byte[] value = in.getBinary(0);
        // With other first bytes the parser would detect another encoding.
        if (value.length < 2 || value[0] != '{' || value[1] == 0 || !isUtf8(value)) {
            return null;
        }
        Scrape scrape = new Scrape(new Fold(tables, true));
        try (JsonParser json = JSON.createParser(value)) {
            if (!scrape.read(json, tables.scrapeVersion) || json.nextToken() != null) {
                return null;
            }
        } catch (IOException invalid) {
            return null;
        }
        long nowMs = in.getLong(2);
        Row.Times times = EntitiesFunction.times(
                true, scrape.ts, EntitiesFunction.atMs(in.getLong(1), nowMs), nowMs, in.getLong(3));
        List<Object> entities = new ArrayList<>();
        scrape.fold.into(entities, UTF8String.fromString(scrape.cluster), scrape.node, scrape.role, times);
        return Fold.array(entities);
    }

    private static boolean isUtf8(byte[] value) {
        for (byte unit : value) {
            if (unit < 0) {  // Not ASCII.
                return Arrays.equals(new String(value, StandardCharsets.UTF_8).getBytes(StandardCharsets.UTF_8), value);
            }
        }
        return true;
    }

    private static final class Scrape {
        final Fold fold;
        String cluster;
        int node = -1;
        String role;
        long ts;
        /** The fields that were read, as a sum of the constants below. */
        private int fieldsRead;

        private static final int VERSION = 1;
        private static final int CLUSTER = 2;
        private static final int NODE = 4;
        private static final int ROLE = 8;
        private static final int TS = 16;
        private static final int SAMPLES = 32;
        private static final int ALL = 63;

        Scrape(Fold fold) {
            this.fold = fold;
        }

        /** Reads the record. Returns whether every field occurs once and is valid. */
        boolean read(JsonParser json, int scrapeVersion) throws IOException {
            json.nextToken();
            for (String field = json.nextFieldName(); field != null; field = json.nextFieldName()) {
                JsonToken token = json.nextToken();
                boolean valid =
                        switch (field) {
                            case "v" -> isFirst(VERSION) && isWhole(token) && json.getLongValue() == scrapeVersion;
                            case "cluster" -> isFirst(CLUSTER)
                                    && token == JsonToken.VALUE_STRING
                                    && EntitiesFunction.isName(cluster = json.getText());
                            case "node" -> isFirst(NODE) && isWhole(token) && (node = json.getIntValue()) >= 0;
                            case "role" -> isFirst(ROLE) && token == JsonToken.VALUE_STRING && isRole(role = json.getText());
                            case "ts" -> isFirst(TS) && isWhole(token) && time(json);
                            case "samples" -> isFirst(SAMPLES) && token == JsonToken.START_ARRAY && samples(json);
                            default -> skip(json);
                        };
                if (!valid) {
                    return false;
                }
            }
            return fieldsRead == ALL && json.currentToken() == JsonToken.END_OBJECT;
        }

        private boolean time(JsonParser json) throws IOException {
            ts = json.getLongValue();
            return true;
        }

        private static boolean skip(JsonParser json) throws IOException {
            json.skipChildren();
            return true;
        }

        private boolean samples(JsonParser json) throws IOException {
            JsonToken token = json.nextToken();
            for (; token == JsonToken.START_OBJECT; token = json.nextToken()) {
                if (!sample(json)) {
                    return false;
                }
            }
            return token == JsonToken.END_ARRAY;
        }

        /** Reads a sample of name, labels and value in this order. Returns false for any other form. */
        private boolean sample(JsonParser json) throws IOException {
            String name = json.nextFieldName(N) ? json.nextTextValue() : null;
            String labels = name != null && json.nextFieldName(L) ? json.nextTextValue() : null;
            if (labels == null || hasSurrogate(labels) || !json.nextFieldName(V)) {
                return false;
            }
            JsonToken token = json.nextToken();
            if (!isWhole(token) && token != JsonToken.VALUE_NUMBER_FLOAT) {
                return false;
            }
            fold.sample(name, labels, json.getDoubleValue(), true);
            return json.nextToken() == JsonToken.END_OBJECT;
        }

        /** Returns whether the labels contain a surrogate: Spark maps different unpaired surrogates to the same text. */
        private static boolean hasSurrogate(String labels) {
            for (int i = 0; i < labels.length(); i++) {
                if (Character.isSurrogate(labels.charAt(i))) {
                    return true;
                }
            }
            return false;
        }

        /** Notes that a field was read. Returns whether it was the first time. */
        private boolean isFirst(int field) {
            boolean isNew = (fieldsRead & field) == 0;
            fieldsRead |= field;
            return isNew;
        }

        private static boolean isWhole(JsonToken token) {
            return token == JsonToken.VALUE_NUMBER_INT;
        }

        private static boolean isRole(String role) {
            return role.equals("broker") || role.equals("controller");
        }
    }
}
