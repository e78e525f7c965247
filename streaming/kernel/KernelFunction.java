package rheostat.stream;

import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A function with fixed argument types. It reads the fields of structs by position, so their names do not matter. */
abstract class KernelFunction implements UnboundFunction, ScalarFunction<Object> {
    private static final long serialVersionUID = 1;

    private final String name;
    private final DataType result;
    private final DataType[] arguments;

    KernelFunction(String name, String result, String... arguments) {
        this.name = name;
        this.result = DataType.fromDDL(result);
        this.arguments = Arrays.stream(arguments).map(DataType::fromDDL).toArray(DataType[]::new);
    }

    @Override
    public BoundFunction bind(StructType argumentTypes) {
        StructField[] fields = argumentTypes.fields();
        if (fields.length != arguments.length) {
            throw new UnsupportedOperationException(
                    name + " takes " + arguments.length + " arguments and was given " + fields.length);
        }
        return this;
    }

    @Override
    public DataType[] inputTypes() {
        return arguments;
    }

    @Override
    public DataType resultType() {
        return result;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String canonicalName() {
        return "rheostat." + name;
    }

    @Override
    public String description() {
        return name;
    }
}
