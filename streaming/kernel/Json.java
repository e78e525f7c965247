package rheostat.stream;

import com.fasterxml.jackson.core.io.NumberOutput;
import java.nio.charset.StandardCharsets;

/** Writes nested JSON objects field by field, and omits unknown values (NaN, null). */
final class Json {
    private static final int EXPECTED = 1024;
    private static final char[] HEX = "0123456789ABCDEF".toCharArray();

    private final Bytes out = new Bytes(EXPECTED);
    private boolean first = true;

    Json open() {
        separate();
        out.int8('{');
        first = true;
        return this;
    }

    Json close() {
        out.int8('}');
        first = false;
        return this;
    }

    Json openList(String name) {
        name(name);
        out.int8('[');
        first = true;
        return this;
    }

    Json closeList() {
        out.int8(']');
        first = false;
        return this;
    }

    Json field(String name, long value) {
        name(name);
        out.ascii(Long.toString(value));
        return this;
    }

    /** Omits NaN (unknown) and infinity, which JSON does not have. */
    Json field(String name, double value) {
        if (Fold.isNumber(value)) {
            name(name);
            out.ascii(NumberOutput.toString(value, true));
        }
        return this;
    }

    Json field(String name, boolean value) {
        name(name);
        out.ascii(Boolean.toString(value));
        return this;
    }

    /** Omits null. */
    Json field(String name, String value) {
        if (value != null) {
            name(name);
            text(value);
        }
        return this;
    }

    byte[] toArray() {
        return out.toArray();
    }

    /** Names are constants and need no escaping. */
    private void name(String name) {
        separate();
        out.int8('"').ascii(name).int8('"').int8(':');
    }

    private void separate() {
        if (!first) {
            out.int8(',');
        }
        first = false;
    }

    private void text(String value) {
        out.int8('"');
        for (byte one : value.getBytes(StandardCharsets.UTF_8)) {
            if (one == '"' || one == '\\') {
                out.int8('\\').int8(one);
            } else if (one >= 0 && one < ' ') {
                out.ascii("\\u00").int8(HEX[one >> 4]).int8(HEX[one & 0xF]);
            } else {
                out.int8(one);
            }
        }
        out.int8('"');
    }
}
