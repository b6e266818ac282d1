type 'a t = Json.t -> 'a

let expected what found = Json.wrong "expected %s, got %s" what (Json.kind found)

let int64 : int64 t = function
  | `Int number -> Int64.of_int number
  | `Intlit digits as found -> (
      match Int64.of_string_opt digits with
      | Some number -> number
      | None -> expected "a whole number of 64 bits with sign" found)
  | found -> expected "a whole number" found

let double : float t = function
  | `Float number when Float.is_finite number -> number
  | `Int number -> Float.of_int number
  | `Intlit digits when Float.is_finite (Float.of_string digits) -> Float.of_string digits
  | found -> expected "a finite number" found

let string : string t = function
  | `String text when Json.is_utf_8 text -> text
  | `String _ -> Json.wrong "expected a Unicode text"
  | found -> expected "a text" found

let boolean : bool t = function `Bool value -> value | found -> expected "a boolean" found
let unit : unit t = function `Null -> () | found -> expected "null" found

let array each : 'a list t = function
  | `List items -> Json.each each items
  | found -> expected "an array" found

let option each : 'a option t = function `Null -> None | found -> Some (each found)

let pair first second : ('a * 'b) t = function
  | `List [ one; two ] -> (Json.within "[0]" (fun () -> first one), Json.within "[1]" (fun () -> second two))
  | found -> expected "an array of two" found

let obj : (string * Json.t) list t = function `Assoc fields -> fields | found -> expected "an object" found
let text_key text = string (`String text)

let number_key text =
  match Int64.of_string_opt text with
  | Some number when String.equal (Int64.to_string number) text || String.equal text "-0" -> number
  | _ -> Json.wrong "expected a key that is a whole number"

let dict key each : ('k * 'v) list t =
 fun json ->
  let known = Hashtbl.create 16 in
  let last (name, value) kept =
    let found = Json.within "a key" (fun () -> key name) in
    if Hashtbl.mem known found then kept
    else (
      Hashtbl.add known found ();
      (found, Json.within name (fun () -> each value)) :: kept)
  in
  List.fold_left (fun kept one -> last one kept) [] (List.rev (obj json))

let field fields name each =
  match Json.find fields name with
  | Some value -> Json.within name (fun () -> each value)
  | None -> Json.wrong "%s is missing" name

let optional fields name each =
  Json.within name (fun () -> each (Option.value (Json.find fields name) ~default:`Null))

let case json =
  let fields = obj json in
  (field fields "case" string, Option.value (Json.find fields "value") ~default:`Null)

let value each json = Json.within "value" (fun () -> each json)
let unknown_case name = Json.wrong "there is no case %S" name
