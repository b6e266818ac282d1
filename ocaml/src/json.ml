type t = Yojson.Safe.t

exception Wrong of string

let () = Printexc.register_printer (function Wrong said -> Some said | _ -> None)
let wrong form = Printf.ksprintf (fun said -> raise (Wrong said)) form
let within place f = try f () with Wrong said -> wrong "%s: %s" place said

let each f items =
  let add (place, done_) item =
    let value = try f item with Wrong said -> wrong "[%d]: %s" place said in
    (place + 1, value :: done_)
  in
  List.rev (snd (List.fold_left add (0, []) items))

let most_depth = 1000

(* [after place] continuation bytes, of which the first is from [low] to [high]. *)
let is_utf_8 text =
  let size = String.length text in
  let byte place = Char.code (String.unsafe_get text place) in
  let rec good place = place >= size || starts place (byte place)
  and starts place first =
    if first < 0x80 then good (place + 1)
    else if first < 0xC2 then false
    else if first < 0xE0 then follows place 1 0x80 0xBF
    else if first = 0xE0 then follows place 2 0xA0 0xBF
    else if first = 0xED then follows place 2 0x80 0x9F
    else if first < 0xF0 then follows place 2 0x80 0xBF
    else if first = 0xF0 then follows place 3 0x90 0xBF
    else if first < 0xF4 then follows place 3 0x80 0xBF
    else first = 0xF4 && follows place 3 0x80 0x8F
  and follows place count low high =
    place + count < size
    && byte (place + 1) >= low
    && byte (place + 1) <= high
    && (count < 2 || byte (place + 2) land 0xC0 = 0x80)
    && (count < 3 || byte (place + 3) land 0xC0 = 0x80)
    && good (place + count + 1)
  in
  good 0

(* The parser is recursive, and takes more than JSON has: comments, names without quotes, NaN. So depth is counted before it
   runs, and what stands outside of texts is looked at. *)
let depth text =
  let rec count place now most in_text =
    if place >= String.length text then most
    else
      match text.[place] with
      | '\000' .. '\031' when in_text -> wrong "no JSON: a control character in a text"
      | '\\' when in_text -> count (place + 2) now most in_text
      | '"' -> count (place + 1) now most (not in_text)
      | _ when in_text -> count (place + 1) now most in_text
      | '[' | '{' -> count (place + 1) (now + 1) (max most (now + 1)) false
      | ']' | '}' -> count (place + 1) (now - 1) most false
      | each when String.contains " \t\r\n,:+-.0123456789eEtrufalsn" each -> count (place + 1) now most false
      | each -> wrong "no JSON: %C outside of a text" each
  in
  count 0 0 0 false

let of_string text =
  if not (is_utf_8 text) then wrong "no JSON: no UTF-8"
  else if depth text > most_depth then wrong "deeper than %d levels" most_depth
  else
    try Yojson.Safe.from_string text
    with Yojson.Json_error said -> wrong "no JSON: %s" (if is_utf_8 said then said else String.escaped said)

let kind : t -> string = function
  | `Null -> "null"
  | `Bool _ -> "a boolean"
  | `Int _ | `Intlit _ -> "a whole number"
  | `Float _ -> "a number"
  | `String _ -> "a text"
  | `List _ -> "an array"
  | `Assoc _ -> "an object"
  | `Tuple _ | `Variant _ -> "no JSON"

(* Of several fields of one name the last counts. *)
let find (fields : (string * t) list) name =
  List.fold_left (fun found (each, value) -> if String.equal each name then Some value else found) None fields

let to_string (json : t) =
  match Yojson.Safe.to_string ~std:true json with
  | text when is_utf_8 text -> text
  | _ -> wrong "a text that is no UTF-8 is no JSON"
  | exception Yojson.Json_error said -> wrong "%s" said
