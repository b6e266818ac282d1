type 'a t = 'a -> Json.t

let small = Int64.of_int min_int
let large = Int64.of_int max_int

let int64 : int64 t =
 fun number ->
  if Int64.compare number small >= 0 && Int64.compare number large <= 0 then `Int (Int64.to_int number)
  else `Intlit (Int64.to_string number)

let double : float t =
 fun number -> if Float.is_finite number then `Float number else Json.wrong "expected a finite number"

let text text = if Json.is_utf_8 text then text else Json.wrong "expected a Unicode text in UTF-8"
let string : string t = fun value -> `String (text value)
let boolean : bool t = fun value -> `Bool value
let unit : unit t = fun () -> `Null

let array each : 'a list t = fun items -> `List (Json.each each items)

let option each : 'a option t = function Some value -> each value | None -> `Null

let pair first second : ('a * 'b) t =
 fun (one, two) ->
  let one = Json.within "[0]" (fun () -> first one) in
  `List [ one; Json.within "[1]" (fun () -> second two) ]

let text_key = text
let number_key = Int64.to_string

let dict key each : ('k * 'v) list t =
 fun items ->
  let known = Hashtbl.create 16 in
  let write (name, value) =
    let name = key name in
    if Hashtbl.mem known name then Json.wrong "the key %S is there twice" name;
    Hashtbl.add known name ();
    (name, Json.within name (fun () -> each value))
  in
  `Assoc (Json.each write items)

let field name each value = (name, Json.within name (fun () -> each value))
let without_null fields = List.filter (function _, `Null -> false | _ -> true) fields
let obj fields : Json.t = `Assoc (without_null fields)
let case name : Json.t = `Assoc [ ("case", `String name) ]
let case_of name each value = obj [ ("case", `String name); field "value" each value ]
