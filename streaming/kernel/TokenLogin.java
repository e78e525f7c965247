package rheostat.stream;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Gives Kafka's Java client the access token in a file, for SASL OAUTHBEARER. The file is read at each login.
 *
 * <p>The first line is the token. The second line is its expiry in ms; without it the token's own claim <code>exp</code> is read.
 * Only brokers check the token.
 */
public final class TokenLogin implements AuthenticateCallbackHandler {
    private static final Pattern EXPIRY = Pattern.compile("\"exp\"\\s*:\\s*(\\d{1,12})");
    private Path file;

    @Override
    public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> login) {
        file = Path.of((String) login.get(0).getOptions().get("tokenFile"));
    }

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerTokenCallback request) {
                request.token(read());
            } else if (!(callback instanceof SaslExtensionsCallback)) {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    private Token read() throws IOException {
        List<String> lines;
        try {
            lines = Files.readAllLines(file, StandardCharsets.US_ASCII);
        } catch (IOException error) {
            throw new IOException("the token file " + file + " cannot be read: " + error, error);
        }
        if (lines.isEmpty()) {
            throw new IOException("the token file " + file + " is empty");
        }
        String value = lines.get(0).strip();
        long expiresMs = lines.size() > 1 ? Long.parseLong(lines.get(1).strip()) : expiryMs(value);
        if (expiresMs <= System.currentTimeMillis()) {
            throw new IOException("the token in " + file + " has expired");
        }
        return new Token(value, expiresMs);
    }

    private long expiryMs(String value) throws IOException {
        String[] parts = value.split("\\.");
        if (parts.length == 3) {
            try {
                String claims = new String(Base64.getUrlDecoder().decode(parts[1]), StandardCharsets.UTF_8);
                Matcher match = EXPIRY.matcher(claims);
                if (match.find()) {
                    return 1000 * Long.parseLong(match.group(1));
                }
            } catch (IllegalArgumentException error) {
                throw new IOException("the token file " + file + " has no JSON Web Token", error);
            }
        }
        throw new IOException("the token in " + file + " does not say when it expires");
    }

    @Override
    public void close() {}

    private record Token(String value, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public String principalName() {
            return "rheostat"; // Only for messages of this client: brokers take the name from the token.
        }

        @Override
        public Long startTimeMs() {
            return null;
        }

        /** A record's own text would contain the token. */
        @Override
        public String toString() {
            return "Token[lifetimeMs=" + lifetimeMs + "]";
        }
    }
}
