// The tri dialect as IRDL. Generated from the op table: python -m mlirtri.dialect.definition
module {
  irdl.dialect @tri {
    irdl.operation @negative {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @sign {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @floor {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @ceil {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @round {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @trunc {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @exp {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @exp2 {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @log {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @log2 {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @log10 {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @log1p {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @expm1 {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @sqrt {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @rsqrt {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @square {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @reciprocal {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @sin {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @cos {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @tan {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @asin {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @acos {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @atan {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @sinh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @cosh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @tanh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @asinh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @acosh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @atanh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @cbrt {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @erf {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @sigmoid {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @relu {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @gelu {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @gelu_tanh {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @silu {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @bitwise_not {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @logical_not {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @add {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @subtract {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @multiply {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @divide {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @floor_divide {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @remainder {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @power {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @atan2 {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @fmod {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @hypot {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @copysign {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @logaddexp {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @logaddexp2 {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @minimum {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @maximum {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @fmin {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @fmax {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @bitwise_and {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @bitwise_or {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @bitwise_xor {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @left_shift {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @right_shift {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @logical_and {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @logical_or {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @logical_xor {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @isnan {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @isinf {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @isfinite {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @signbit {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @equal {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @not_equal {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @less {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @less_equal {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @greater {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @greater_equal {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @abs {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @real {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @imag {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @conj {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "!builtin.tensor" 
      irdl.results(result: %1)
    }
    irdl.operation @complex {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(real: %0, imaginary: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @where {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      %2 = irdl.base "!builtin.tensor" 
      irdl.operands(condition: %0, x: %1, y: %2)
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @softplus {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.float" 
      %2 = irdl.base "#builtin.float" 
      irdl.attributes {"beta" = %1, "threshold" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @cast {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.string" 
      irdl.attributes {"dtype" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @bitcast {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.string" 
      irdl.attributes {"dtype" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @sum {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @prod {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @max {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @min {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @any {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @all {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @argmax {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @argmin {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @mean {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      irdl.attributes {"axes" = %1, "keepdims" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @var {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      %3 = irdl.base "#builtin.integer" 
      irdl.attributes {"axes" = %1, "keepdims" = %2, "correction" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @std {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      %3 = irdl.base "#builtin.integer" 
      irdl.attributes {"axes" = %1, "keepdims" = %2, "correction" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @reshape {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      irdl.attributes {"shape" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @transpose {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      irdl.attributes {"permutation" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @broadcast_to {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      irdl.attributes {"shape" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @slice {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      %3 = irdl.any
      irdl.attributes {"offsets" = %1, "sizes" = %2, "strides" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @concatenate {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @flip {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      irdl.attributes {"axes" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @matmul {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @softmax {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @log_softmax {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @layer_norm {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, parameters: variadic %1)
      %2 = irdl.base "#builtin.integer" 
      %3 = irdl.base "#builtin.float" 
      irdl.attributes {"normalized" = %2, "eps" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @rms_norm {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, parameters: variadic %1)
      %2 = irdl.base "#builtin.integer" 
      %3 = irdl.base "#builtin.float" 
      irdl.attributes {"normalized" = %2, "eps" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @extract_slice {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, indices: variadic %1)
      %2 = irdl.any
      %3 = irdl.any
      %4 = irdl.any
      %5 = irdl.any
      irdl.attributes {"offsets" = %2, "sizes" = %3, "strides" = %4, "drop" = %5}
      %6 = irdl.base "!builtin.tensor" 
      irdl.results(result: %6)
    }
    irdl.operation @insert_slice {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      %2 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, update: %1, indices: variadic %2)
      %3 = irdl.any
      %4 = irdl.any
      %5 = irdl.any
      %6 = irdl.any
      irdl.attributes {"offsets" = %3, "sizes" = %4, "strides" = %5, "drop" = %6}
      %7 = irdl.base "!builtin.tensor" 
      irdl.results(result: %7)
    }
    irdl.operation @fill {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(value: %0, indices: variadic %1)
      %2 = irdl.any
      irdl.attributes {"shape" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @empty {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(indices: variadic %0)
      %1 = irdl.any
      %2 = irdl.base "#builtin.string" 
      irdl.attributes {"shape" = %1, "dtype" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @iota {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(indices: variadic %0)
      %1 = irdl.any
      %2 = irdl.base "#builtin.integer" 
      %3 = irdl.base "#builtin.string" 
      irdl.attributes {"shape" = %1, "axis" = %2, "dtype" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @dynamic_broadcast {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, indices: variadic %1)
      %2 = irdl.any
      irdl.attributes {"shape" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @dynamic_reshape {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, indices: variadic %1)
      %2 = irdl.any
      irdl.attributes {"shape" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @size {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @gather {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, positions: variadic %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @scatter {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      %2 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, update: %1, positions: variadic %2)
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @compress {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, mask: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @place {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      %2 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, mask: %1, update: %2)
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @constant {
      %0 = irdl.any
      %1 = irdl.any
      %2 = irdl.base "#builtin.string" 
      irdl.attributes {"value" = %0, "shape" = %1, "dtype" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @arange {
      %0 = irdl.any
      %1 = irdl.any
      %2 = irdl.base "#builtin.integer" 
      %3 = irdl.base "#builtin.string" 
      irdl.attributes {"start" = %0, "step" = %1, "size" = %2, "dtype" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @eye {
      %0 = irdl.base "#builtin.integer" 
      %1 = irdl.base "#builtin.integer" 
      %2 = irdl.base "#builtin.integer" 
      %3 = irdl.base "#builtin.string" 
      irdl.attributes {"rows" = %0, "columns" = %1, "diagonal" = %2, "dtype" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @pad {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.any
      %2 = irdl.any
      %3 = irdl.any
      irdl.attributes {"low" = %1, "high" = %2, "value" = %3}
      %4 = irdl.base "!builtin.tensor" 
      irdl.results(result: %4)
    }
    irdl.operation @literal {
      %0 = irdl.any
      %1 = irdl.any
      %2 = irdl.base "#builtin.string" 
      irdl.attributes {"values" = %0, "shape" = %1, "dtype" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @scan {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.string" 
      %2 = irdl.base "#builtin.integer" 
      irdl.attributes {"kind" = %1, "axis" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @sort {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @argsort {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.integer" 
      irdl.attributes {"axis" = %1}
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @searchsorted {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, values: %1)
      %2 = irdl.any
      irdl.attributes {"right" = %2}
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @bins {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, edges: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @add_at {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      %2 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, positions: %1, values: %2)
      %3 = irdl.base "!builtin.tensor" 
      irdl.results(result: %3)
    }
    irdl.operation @correlate {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, y: %1)
      %2 = irdl.base "!builtin.tensor" 
      irdl.results(result: %2)
    }
    irdl.operation @convolution {
      %0 = irdl.base "!builtin.tensor" 
      %1 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0, w: %1)
      %2 = irdl.any
      %3 = irdl.any
      %4 = irdl.any
      %5 = irdl.any
      %6 = irdl.any
      %7 = irdl.base "#builtin.integer" 
      irdl.attributes {"strides" = %2, "dilations" = %3, "low" = %4, "high" = %5, "spread" = %6, "groups" = %7}
      %8 = irdl.base "!builtin.tensor" 
      irdl.results(result: %8)
    }
    irdl.operation @pool {
      %0 = irdl.base "!builtin.tensor" 
      irdl.operands(x: %0)
      %1 = irdl.base "#builtin.string" 
      %2 = irdl.any
      %3 = irdl.any
      %4 = irdl.any
      irdl.attributes {"kind" = %1, "window" = %2, "strides" = %3, "dilations" = %4}
      %5 = irdl.base "!builtin.tensor" 
      irdl.results(result: %5)
    }
  }
}
