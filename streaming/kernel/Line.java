package rheostat.stream;

/** A least-squares line through points. */
final class Line {
    private int points;
    private double sumX;
    private double sumY;
    private double sumXX;
    private double sumXY;
    private double sumYY;

    void add(double x, double y) {
        points++;
        sumX += x;
        sumY += y;
        sumXX += x * x;
        sumXY += x * y;
        sumYY += y * y;
    }

    int points() {
        return points;
    }

    /** Returns the slope; NaN with fewer than two different x. */
    double slope() {
        double varianceX = varianceX();
        return varianceX == 0 ? Double.NaN : covariance() / varianceX;
    }

    /** Returns the fit from 0 to 1. A flat line has r² = 1. Two points always fit, so they have none (NaN). */
    double r2() {
        if (points <= 2) {
            return Double.NaN;
        }
        double varianceY = points * sumYY - sumY * sumY;
        double r2 = covariance() * covariance() / (varianceX() * varianceY);
        return varianceY <= 0 || Double.isNaN(r2) ? 1.0 : Math.min(r2, 1.0);
    }

    // Variance and covariance, each times points².

    private double varianceX() {
        return points * sumXX - sumX * sumX;
    }

    private double covariance() {
        return points * sumXY - sumX * sumY;
    }
}
