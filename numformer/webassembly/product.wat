;; The inner loop of NumPy's matmul: c = a @ b for each of several matrices, all with strides in bytes.
;;
;; A tile of c has 4 rows and 32 bytes of columns, in 8 vectors. For each k the tile adds 4 numbers of a,
;; each in all places of a vector, times 2 vectors of a row of b. So each number of c is added up from
;; k = 0, as in NumPy's own loop. Before that, 32 bytes of the columns of b are packed one row after
;; the other, DEPTH rows at a time. At the edge a tile has the last row of a several times, and columns
;; beyond the last; it is written to the workspace first, from which what is wanted is copied.
;;
;; VECTOR is f32x4 or f64x2, SCALAR f32 or f64, BITS 32 or 64, SIZE 4 or 8 bytes.
(module
  (import "numpy" "memory" (memory 0))
  (import "numpy" "workspace" (global $workspace i32))    ;; 128 bytes for a tile, DEPTH * 32 for b

  ;; n numbers from one place to another
  (func $copy (param $from i32) (param $from_step i32) (param $to i32) (param $to_step i32)
              (param $n i32)
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $n)))
      (SCALAR.store (local.get $to) (SCALAR.load (local.get $from)))
      (local.set $from (i32.add (local.get $from) (local.get $from_step)))
      (local.set $to (i32.add (local.get $to) (local.get $to_step)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next))))

  ;; the arguments of every inner loop of NumPy: addresses, sizes, strides, and what we do not use
  (func $loop (export "loop") (param $args i32) (param $sizes i32) (param $steps i32) (param $data i32)
    (local $a i32) (local $b i32) (local $c i32) (local $matrices i32)
    (local $M i32) (local $K i32) (local $N i32)
    (local $a_row i32) (local $a_column i32) (local $b_row i32) (local $b_column i32)
    (local $c_row i32) (local $c_column i32)
    (local $i i32) (local $j i32) (local $k i32) (local $rows i32) (local $columns i32)
    (local $panel i32) (local $left i32) (local $bk i32) (local $direct i32) (local $x i32)
    (local $rows_of_b i32) (local $b_step i32)
    (local $r1 i32) (local $r2 i32) (local $r3 i32) (local $ak i32)
    (local $a0 i32) (local $a1 i32) (local $a2 i32) (local $a3 i32)
    (local $c0 i32) (local $c1 i32) (local $c2 i32) (local $c3 i32)
    (local $b0 v128) (local $b1 v128) (local $s v128)
    (local $c00 v128) (local $c01 v128) (local $c10 v128) (local $c11 v128)
    (local $c20 v128) (local $c21 v128) (local $c30 v128) (local $c31 v128)

    (local.set $a (i32.load (local.get $args)))
    (local.set $b (i32.load offset=4 (local.get $args)))
    (local.set $c (i32.load offset=8 (local.get $args)))
    (local.set $matrices (i32.load (local.get $sizes)))
    (local.set $M (i32.load offset=4 (local.get $sizes)))
    (local.set $K (i32.load offset=8 (local.get $sizes)))
    (local.set $N (i32.load offset=12 (local.get $sizes)))
    (local.set $a_row (i32.load offset=12 (local.get $steps)))
    (local.set $a_column (i32.load offset=16 (local.get $steps)))
    (local.set $b_row (i32.load offset=20 (local.get $steps)))
    (local.set $b_column (i32.load offset=24 (local.get $steps)))
    (local.set $c_row (i32.load offset=28 (local.get $steps)))
    (local.set $c_column (i32.load offset=32 (local.get $steps)))
    (local.set $panel (i32.add (global.get $workspace) (i32.const 128)))

    (block $all_matrices (loop $next_matrix
      (br_if $all_matrices (i32.eqz (local.get $matrices)))
      (local.set $k (i32.const 0))

      (block $all_k (loop $next_k                     ;; rows k to k + rows of b; once without any
        (local.set $rows (i32.sub (local.get $K) (local.get $k)))
        (if (i32.gt_s (local.get $rows) (i32.const DEPTH))
          (then (local.set $rows (i32.const DEPTH))))
        (local.set $j (i32.const 0))

        (block $all_columns (loop $next_columns       ;; columns j to j + columns of b and c
          (br_if $all_columns (i32.ge_s (local.get $j) (local.get $N)))
          (local.set $columns (i32.sub (local.get $N) (local.get $j)))
          (if (i32.gt_s (local.get $columns) (i32.const WIDTH))
            (then (local.set $columns (i32.const WIDTH))))
          (local.set $direct (i32.and (i32.eq (local.get $columns) (i32.const WIDTH))
                                      (i32.eq (local.get $c_column) (i32.const SIZE))))

          ;; pack them, unless few rows of a would use them, and their places are side by side
          (local.set $rows_of_b (local.get $panel))
          (local.set $b_step (i32.const 32))
          (local.set $x (i32.const 0))
          (block $packed
            (if (i32.and (i32.lt_s (local.get $M) (i32.const 8))
                         (i32.and (i32.eq (local.get $columns) (i32.const WIDTH))
                                  (i32.eq (local.get $b_column) (i32.const SIZE))))
              (then
                (local.set $rows_of_b
                  (i32.add (i32.add (local.get $b) (i32.mul (local.get $k) (local.get $b_row)))
                           (i32.mul (local.get $j) (local.get $b_column))))
                (local.set $b_step (local.get $b_row))
                (br $packed)))
            (loop $next_column
            (br_if $packed (i32.ge_s (local.get $x) (local.get $columns)))
            (call $copy
              (i32.add (i32.add (local.get $b) (i32.mul (local.get $k) (local.get $b_row)))
                       (i32.mul (i32.add (local.get $j) (local.get $x)) (local.get $b_column)))
              (local.get $b_row)
              (i32.add (local.get $panel) (i32.mul (local.get $x) (i32.const SIZE)))
              (i32.const 32)
              (local.get $rows))
            (local.set $x (i32.add (local.get $x) (i32.const 1)))
            (br $next_column)))

          (local.set $i (i32.const 0))
          (block $all_rows (loop $next_rows           ;; rows i, r1, r2 and r3 of a and c
            (br_if $all_rows (i32.ge_s (local.get $i) (local.get $M)))
            (local.set $x (i32.sub (local.get $M) (i32.const 1)))
            (local.set $r1 (i32.add (local.get $i) (i32.const 1)))
            (local.set $r2 (i32.add (local.get $i) (i32.const 2)))
            (local.set $r3 (i32.add (local.get $i) (i32.const 3)))
            (local.set $r1 (select (local.get $r1) (local.get $x)
                                   (i32.lt_s (local.get $r1) (local.get $x))))
            (local.set $r2 (select (local.get $r2) (local.get $x)
                                   (i32.lt_s (local.get $r2) (local.get $x))))
            (local.set $r3 (select (local.get $r3) (local.get $x)
                                   (i32.lt_s (local.get $r3) (local.get $x))))

            ;; where their tile of c is
            (local.set $x (i32.add (local.get $c) (i32.mul (local.get $j) (local.get $c_column))))
            (local.set $c0 (i32.add (local.get $x) (i32.mul (local.get $i) (local.get $c_row))))
            (local.set $c1 (i32.add (local.get $x) (i32.mul (local.get $r1) (local.get $c_row))))
            (local.set $c2 (i32.add (local.get $x) (i32.mul (local.get $r2) (local.get $c_row))))
            (local.set $c3 (i32.add (local.get $x) (i32.mul (local.get $r3) (local.get $c_row))))
            (if (i32.eqz (local.get $direct)) (then
              (if (local.get $k) (then
                (call $copy (local.get $c0) (local.get $c_column) (global.get $workspace)
                            (i32.const SIZE) (local.get $columns))
                (call $copy (local.get $c1) (local.get $c_column)
                            (i32.add (global.get $workspace) (i32.const 32))
                            (i32.const SIZE) (local.get $columns))
                (call $copy (local.get $c2) (local.get $c_column)
                            (i32.add (global.get $workspace) (i32.const 64))
                            (i32.const SIZE) (local.get $columns))
                (call $copy (local.get $c3) (local.get $c_column)
                            (i32.add (global.get $workspace) (i32.const 96))
                            (i32.const SIZE) (local.get $columns))))
              (local.set $c0 (global.get $workspace))
              (local.set $c1 (i32.add (global.get $workspace) (i32.const 32)))
              (local.set $c2 (i32.add (global.get $workspace) (i32.const 64)))
              (local.set $c3 (i32.add (global.get $workspace) (i32.const 96)))))

            ;; the sums until k
            (if (local.get $k)
              (then
                (local.set $c00 (v128.load (local.get $c0)))
                (local.set $c01 (v128.load offset=16 (local.get $c0)))
                (local.set $c10 (v128.load (local.get $c1)))
                (local.set $c11 (v128.load offset=16 (local.get $c1)))
                (local.set $c20 (v128.load (local.get $c2)))
                (local.set $c21 (v128.load offset=16 (local.get $c2)))
                (local.set $c30 (v128.load (local.get $c3)))
                (local.set $c31 (v128.load offset=16 (local.get $c3))))
              (else
                (local.set $c00 (v128.const 0)) (local.set $c01 (v128.const 0))
                (local.set $c10 (v128.const 0)) (local.set $c11 (v128.const 0))
                (local.set $c20 (v128.const 0)) (local.set $c21 (v128.const 0))
                (local.set $c30 (v128.const 0)) (local.set $c31 (v128.const 0))))

            ;; c += a[:, k] b[k, :]
            (local.set $x (i32.add (local.get $a) (i32.mul (local.get $k) (local.get $a_column))))
            (local.set $a0 (i32.add (local.get $x) (i32.mul (local.get $i) (local.get $a_row))))
            (local.set $a1 (i32.add (local.get $x) (i32.mul (local.get $r1) (local.get $a_row))))
            (local.set $a2 (i32.add (local.get $x) (i32.mul (local.get $r2) (local.get $a_row))))
            (local.set $a3 (i32.add (local.get $x) (i32.mul (local.get $r3) (local.get $a_row))))
            (local.set $bk (local.get $rows_of_b))
            (local.set $left (local.get $rows))
            (local.set $ak (i32.const 0))
            (block $added (loop $add
              (br_if $added (i32.eqz (local.get $left)))
              (local.set $b0 (v128.load (local.get $bk)))
              (local.set $b1 (v128.load offset=16 (local.get $bk)))
              (local.set $s (v128.loadBITS_splat (i32.add (local.get $a0) (local.get $ak))))
              (local.set $c00 (VECTOR.add (local.get $c00)
                                          (VECTOR.mul (local.get $s) (local.get $b0))))
              (local.set $c01 (VECTOR.add (local.get $c01)
                                          (VECTOR.mul (local.get $s) (local.get $b1))))
              (local.set $s (v128.loadBITS_splat (i32.add (local.get $a1) (local.get $ak))))
              (local.set $c10 (VECTOR.add (local.get $c10)
                                          (VECTOR.mul (local.get $s) (local.get $b0))))
              (local.set $c11 (VECTOR.add (local.get $c11)
                                          (VECTOR.mul (local.get $s) (local.get $b1))))
              (local.set $s (v128.loadBITS_splat (i32.add (local.get $a2) (local.get $ak))))
              (local.set $c20 (VECTOR.add (local.get $c20)
                                          (VECTOR.mul (local.get $s) (local.get $b0))))
              (local.set $c21 (VECTOR.add (local.get $c21)
                                          (VECTOR.mul (local.get $s) (local.get $b1))))
              (local.set $s (v128.loadBITS_splat (i32.add (local.get $a3) (local.get $ak))))
              (local.set $c30 (VECTOR.add (local.get $c30)
                                          (VECTOR.mul (local.get $s) (local.get $b0))))
              (local.set $c31 (VECTOR.add (local.get $c31)
                                          (VECTOR.mul (local.get $s) (local.get $b1))))
              (local.set $ak (i32.add (local.get $ak) (local.get $a_column)))
              (local.set $bk (i32.add (local.get $bk) (local.get $b_step)))
              (local.set $left (i32.sub (local.get $left) (i32.const 1)))
              (br $add)))

            (v128.store (local.get $c0) (local.get $c00))
            (v128.store offset=16 (local.get $c0) (local.get $c01))
            (v128.store (local.get $c1) (local.get $c10))
            (v128.store offset=16 (local.get $c1) (local.get $c11))
            (v128.store (local.get $c2) (local.get $c20))
            (v128.store offset=16 (local.get $c2) (local.get $c21))
            (v128.store (local.get $c3) (local.get $c30))
            (v128.store offset=16 (local.get $c3) (local.get $c31))
            (if (i32.eqz (local.get $direct)) (then
              (local.set $x (i32.add (local.get $c)
                                     (i32.mul (local.get $j) (local.get $c_column))))
              (call $copy (local.get $c0) (i32.const SIZE)
                (i32.add (local.get $x) (i32.mul (local.get $i) (local.get $c_row)))
                (local.get $c_column) (local.get $columns))
              (call $copy (local.get $c1) (i32.const SIZE)
                (i32.add (local.get $x) (i32.mul (local.get $r1) (local.get $c_row)))
                (local.get $c_column) (local.get $columns))
              (call $copy (local.get $c2) (i32.const SIZE)
                (i32.add (local.get $x) (i32.mul (local.get $r2) (local.get $c_row)))
                (local.get $c_column) (local.get $columns))
              (call $copy (local.get $c3) (i32.const SIZE)
                (i32.add (local.get $x) (i32.mul (local.get $r3) (local.get $c_row)))
                (local.get $c_column) (local.get $columns))))
            (local.set $i (i32.add (local.get $i) (i32.const 4)))
            (br $next_rows)))

          (local.set $j (i32.add (local.get $j) (i32.const WIDTH)))
          (br $next_columns)))

        (local.set $k (i32.add (local.get $k) (i32.const DEPTH)))
        (br_if $next_k (i32.lt_s (local.get $k) (local.get $K)))))

      (local.set $a (i32.add (local.get $a) (i32.load (local.get $steps))))
      (local.set $b (i32.add (local.get $b) (i32.load offset=4 (local.get $steps))))
      (local.set $c (i32.add (local.get $c) (i32.load offset=8 (local.get $steps))))
      (local.set $matrices (i32.sub (local.get $matrices) (i32.const 1)))
      (br $next_matrix)))))
