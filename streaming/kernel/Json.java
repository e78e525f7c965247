package rheostat.stream;

import com.fasterxml.jackson.core.io.NumberOutput;
import java.nio.charset.StandardCharsets;

/** Writes nested JSON objects field by field, and omits unknown values (NaN, null). */
final class Json {
    private static final int INITIAL_BYTES = 1024;
    private static final char[] HEX = "0123456789ABCDEF".toCharArray();

    private final Bytes out = new Bytes(INITIAL_BYTES);
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

    Json openObject(String name) {
        name(name);
        out.int8('{');
        first = true;
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
        for (byte unit : value.getBytes(StandardCharsets.UTF_8)) {
            if (unit == '"' || unit == '\\') {
                out.int8('\\').int8(unit);
            } else if (unit >= 0 && unit < ' ') {
                out.ascii("\\u00").int8(HEX[unit >> 4]).int8(HEX[unit & 0xF]);
            } else {
                out.int8(unit);
            }
        }
        out.int8('"');
    }
}
