package report

import (
	"math"
	"slices"
	"strconv"
)

// Median returns the middle one, the mean of the middle two, or 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Percentile returns the smallest value that at least p percent of the sorted values don't exceed; 0 of none.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Distribution returns the curve of a distribution: how many percent are at most so large.
func Distribution(sorted []float64) []Point {
	const points = 200
	if len(sorted) == 0 {
		return nil
	}
	curve := make([]Point, 0, points+1)
	for i := range points {
		p := 100 * float64(i+1) / (points + 1)
		curve = append(curve, Point{Percentile(sorted, p), p})
	}
	return append(curve, Point{sorted[len(sorted)-1], 100})
}

// number writes three digits at least, and never more than two behind the point.
func number(v float64) string {
	digits := 0
	switch a := math.Abs(v); {
	case v == math.Trunc(v):
	case a < 10:
		digits = 2
	case a < 100:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	for i := len(text) - 3; digits == 0 && i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// number3 is number with three digits behind the point of a ratio below one.
func number3(v float64) string {
	if v != 0 && math.Abs(v) < 1 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return number(v)
}
