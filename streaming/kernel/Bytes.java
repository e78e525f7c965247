package rheostat.stream;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing byte buffer for big-endian numbers and length-prefixed texts. */
final class Bytes {
    private static final int SHORT_TEXT_MAX = 0xFFFF;
    private static final VarHandle INT64 = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT32 = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final VarHandle INT16 = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.BIG_ENDIAN);

    private byte[] bytes;
    private int length;

    Bytes(int initialBytes) {
        bytes = new byte[initialBytes];
    }

    Bytes int8(int value) {
        ensureCapacity(Byte.BYTES);
        bytes[length++] = (byte) value;
        return this;
    }

    Bytes int16(int value) {
        ensureCapacity(Short.BYTES);
        INT16.set(bytes, length, (short) value);
        length += Short.BYTES;
        return this;
    }

    Bytes int32(int value) {
        ensureCapacity(Integer.BYTES);
        INT32.set(bytes, length, value);
        length += Integer.BYTES;
        return this;
    }

    Bytes int64(long value) {
        ensureCapacity(Long.BYTES);
        INT64.set(bytes, length, value);
        length += Long.BYTES;
        return this;
    }

    Bytes float64(double value) {
        return int64(Double.doubleToRawLongBits(value));
    }

    /** Cuts a text above 65,535 bytes; Kafka's names are far shorter. */
    Bytes shortText(String text) {
        byte[] raw = text.getBytes(StandardCharsets.UTF_8);
        int written = Math.min(raw.length, SHORT_TEXT_MAX);
        int16(written);
        return raw(raw, written);
    }

    Bytes raw(byte[] more) {
        return raw(more, more.length);
    }

    private Bytes raw(byte[] more, int count) {
        ensureCapacity(count);
        System.arraycopy(more, 0, bytes, length, count);
        length += count;
        return this;
    }

    /** Appends a text that must be ASCII. */
    Bytes ascii(String text) {
        ensureCapacity(text.length());
        for (int i = 0; i < text.length(); i++) {
            bytes[length++] = (byte) text.charAt(i);
        }
        return this;
    }

    byte[] toArray() {
        return bytes.length == length ? bytes : Arrays.copyOf(bytes, length);
    }

    private void ensureCapacity(int more) {
        if (length + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + more));
        }
    }
}
