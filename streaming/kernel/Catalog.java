package rheostat.stream;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Makes the functions of this package callable from a Column, by names like <code>rheostat.records</code>. */
public final class Catalog implements FunctionCatalog {
    private String name;
    private Map<String, UnboundFunction> functions;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        Tables tables = Tables.of(options.get("tables"));
        this.name = name;
        this.functions = Map.of(
                "entities", new EntitiesFunction(tables),
                "entities_of_json", new EntitiesOfJsonFunction(tables),
                "otlp", new OtlpFunction(tables),
                "scrapes_of_points", new PointsFunction(),
                "records", new RecordsFunction(tables));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return functions.keySet().stream().map(function -> Identifier.of(namespace, function)).toArray(Identifier[]::new);
    }

    @Override
    public UnboundFunction loadFunction(Identifier identifier) {
        UnboundFunction function = functions.get(identifier.name());
        if (function == null) {
            throw new IllegalArgumentException(
                    "no function " + identifier.name() + " in catalog " + name + "; there are " + functions.keySet());
        }
        return function;
    }
}
