package rheostat.stream;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads the fields of one protobuf message one after another. It never reads beyond the message, and never allocates memory for a
 * length that the message only states.
 */
final class Wire {
    static final int VARINT = 0;
    static final int FIXED64 = 1;
    static final int BYTES = 2;
    private static final int FIXED32 = 5;
    private static final int TYPE_BITS = 3;
    private static final int TYPE_MASK = 7;
    private static final int VARINT_BITS_MAX = 63;
    private static final VarHandle INT64 = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final byte[] bytes;
    private final int end;
    private int at;
    private int field;
    private int type;

    /** A message that breaks the rules of protobuf, or a bound; without a stack trace, because a hostile sender may send many. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1;

        Malformed(String problem) {
            super(problem, null, false, false);
        }
    }

    Wire(byte[] bytes) {
        this(bytes, 0, bytes.length);
    }

    private Wire(byte[] bytes, int start, int end) {
        this.bytes = bytes;
        this.at = start;
        this.end = end;
    }

    /** Moves to the next field. Returns false at the end of the message. */
    boolean next() throws Malformed {
        if (at == end) {
            return false;
        }
        long tag = varint();
        field = (int) (tag >>> TYPE_BITS);
        type = (int) tag & TYPE_MASK;
        if (field <= 0 || tag >>> Integer.SIZE != 0) {
            throw new Malformed("a field has an invalid number");
        }
        return true;
    }

    /** Returns whether the current field has this number and type. Protobuf treats a known number of another type as unknown. */
    boolean is(int number, int wireType) {
        return field == number && type == wireType;
    }

    /** Skips the value of the current field. */
    void skip() throws Malformed {
        switch (type) {
            case VARINT -> varint();
            case FIXED64 -> advance(Long.BYTES);
            case BYTES -> advance(length());
            case FIXED32 -> advance(Integer.BYTES);
            // Groups (types 3 and 4) are older than OTLP, and would need recursion.
            default -> throw new Malformed("a field has the wire type " + type);
        }
    }

    long varint() throws Malformed {
        long value = 0;
        for (int shift = 0; shift <= VARINT_BITS_MAX; shift += Byte.SIZE - 1) {
            byte part = bytes[advance(1)];
            value |= (long) (part & Byte.MAX_VALUE) << shift;
            if (part >= 0) {
                return value;
            }
        }
        throw new Malformed("a number has more than ten bytes");
    }

    long fixed64() throws Malformed {
        return (long) INT64.get(bytes, advance(Long.BYTES));
    }

    Wire message() throws Malformed {
        int length = length();
        int start = advance(length);
        return new Wire(bytes, start, start + length);
    }

    /** Returns a text that shares the bytes of the message. */
    UTF8String text() throws Malformed {
        int length = length();
        UTF8String text = UTF8String.fromBytes(bytes, advance(length), length);
        if (!text.isFullAscii() && !text.isValid()) {
            throw new Malformed("a text is not valid UTF-8");
        }
        return text;
    }

    private int length() throws Malformed {
        long length = varint();
        if (length < 0 || length > end - at) {
            throw new Malformed("the record ends within a field");
        }
        return (int) length;
    }

    /** Moves forward by a number of bytes. Returns the position before. */
    private int advance(int count) throws Malformed {
        if (count > end - at) {
            throw new Malformed("the record ends within a field");
        }
        int start = at;
        at += count;
        return start;
    }
}
