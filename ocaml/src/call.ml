type t = { name : string; parameters : (string * Json.t) list; interface : string; version : string }

let make ?(interface = "") ?(version = "") name parameters =
  { name; parameters = Write.without_null parameters; interface; version }

let inputs each known =
  let check (name, _) = if not (List.mem name known) then Json.wrong "there is no input %S" name in
  List.iter check each.parameters;
  each.parameters

let to_string each =
  let text name = function "" -> [] | said -> [ (name, `String said) ] in
  let parameters = ("parameters", `Assoc each.parameters) in
  let rest = text "interface" each.interface @ text "version" each.version in
  Json.to_string (`Assoc (("method", `String each.name) :: parameters :: rest))

let of_string payload =
  let fields = Read.obj (Json.of_string payload) in
  let text name = Option.fold ~none:"" ~some:Read.string (Json.find fields name) in
  {
    name = Read.field fields "method" Read.string;
    parameters = Option.fold ~none:[] ~some:Read.obj (Json.find fields "parameters");
    interface = text "interface";
    version = text "version";
  }

let result json = Json.to_string (`Assoc [ ("result", json) ])
let error fault = Json.to_string (`Assoc [ ("error", Fault.to_json fault) ])

let answer payload =
  let fields = Read.obj (Json.of_string payload) in
  match (Json.find fields "error", Json.find fields "result") with
  | (None | Some `Null), Some result -> Ok result
  | Some fault, _ -> Error (Json.within "error" (fun () -> Fault.of_json fault))
  | None, None -> Json.wrong "neither a result nor an error"
